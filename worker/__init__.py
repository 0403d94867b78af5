"""The child: `python -P -m worker --channel FD --stack FD --parent PID APP [APP...]`.

    guard      what the process is before it runs a line of the user's
    start      load the applications, or say why that failed
    registry   their lanes: the only names that a job can select
    serve      one job after another: Ready, then Run ... Done | Failed | Yielded
    host       whose guest a job is: its own process, or a thread of the supervisor
    attempt    one job: enter the compute half, take its rows, find the last word
    context    what a compute half may ask for
    batches/   rows become batches: shapes, cuts, credit, resume points
    capture, projection, description
               an exception or a value of any nature becomes bounded text

It computes and sends; it opens no store and knows of none.
"""
