"""Canvas and figures: what every picture is drawn with."""
