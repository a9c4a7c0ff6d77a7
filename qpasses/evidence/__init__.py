"""Evidence that body and meaning agree, and how far the meaning is from real arithmetic."""
