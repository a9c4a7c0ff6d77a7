"""Reports: the same facts as JSON and as terminal tables; nothing is computed here."""
