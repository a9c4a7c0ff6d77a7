"""Emit: from the rewritten graph to the model file, whole or not at all."""
