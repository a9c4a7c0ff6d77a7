"""The integer graph as TOSA, MLIR text that needs no bindings to write."""
