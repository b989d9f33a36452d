"""From runs to features: the evidence of a run, and the rules that resolve it."""
