"""Why a dataflow waits, what it dropped, and who held it."""
