"""The law: nouns, their states and their moves. No session, clock, network or framework here."""
