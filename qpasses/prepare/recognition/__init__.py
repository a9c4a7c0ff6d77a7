"""What passes of prepare know about ops that exporters write out or fuse."""
