"""An integer graph as a TFLite file that LiteRT runs bit for bit."""
