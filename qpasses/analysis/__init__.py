"""Analysis: where accuracy goes, tensor by tensor, and what helps."""
