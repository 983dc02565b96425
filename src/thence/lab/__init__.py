"""The laboratory: simulator, explorer, topologies, sweeps, and the papers with their claims."""
