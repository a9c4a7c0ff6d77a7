"""Calls of the interface: what is asked, read and checked; what is reported of it."""
