"""Step through a recording of streams, both ways."""
