"""What checks an emitted model, by rules; it shares nothing with what made it."""
