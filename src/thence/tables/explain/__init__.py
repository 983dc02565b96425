"""Why a delivery came too early: the causal path, as data, as a sentence and as a text diagram."""
