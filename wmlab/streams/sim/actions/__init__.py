"""The actions of a script, carried out in a simulated run."""
