"""What checks an emitted model, by rules.

It shares nothing with the stages that choose, place and integerize. It does share reading,
prepare, which is checked by running the model before and after, and the proofs of evidence.
"""
