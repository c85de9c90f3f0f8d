"""`plugformer verify-resume`: does a training that is killed and resumed end with the same bits?"""
