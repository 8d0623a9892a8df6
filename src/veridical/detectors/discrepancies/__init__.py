"""Find discrepancies: places of a response that the sources contradict by a rule, whatever a model or word overlap
says.
"""
