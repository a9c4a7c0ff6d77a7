"""Single faults in emitted models: verify must find every one of them."""
