"""Answers that all models give: verdicts, and who held a bound."""
