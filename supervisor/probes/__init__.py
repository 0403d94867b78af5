"""What the machine says about its owner, its power and its memory: asked off the loop, three-valued.

    terminals  logind -> desktop      sysfs    /proc, control groups      (macOS: ioreg, pmset, vm_stat)
         `---------+-------'            |               |
               presence               power          memory
                   `--------------------+---------------'
                                   watch, a thread each with a time limit -> Readings, on the loop

A probe says what it has seen and from where; what a doubt means is decided by the gates.
"""
