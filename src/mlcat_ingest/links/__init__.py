"""From runs to features: what a run says about its features, and which features those are."""
