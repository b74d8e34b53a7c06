"""Many runs and what comes of them: sweeps and the papers' protocols."""
