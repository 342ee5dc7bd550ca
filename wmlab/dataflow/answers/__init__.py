"""Why a dataflow waits, what it dropped, and what held it."""
