"""What people are told: status, a job's story, and the words, units and spellings that both need."""
