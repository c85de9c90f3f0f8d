"""`plugformer verify-resume`: a proof that a training which is killed and resumed ends like any other.

Reading order: command, resuming (the proof), segment (a process that trains and is killed), recording
(what is noted after every update).
"""
