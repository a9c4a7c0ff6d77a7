"""Bisecting: what a device stored beside the exact integers, node by node."""
