"""What the keeper does: `tender` carries out what `agent.keeping` thinks, `desk` serves agentd, `memory` outlives a keeper."""
