"""Policies: findings in, decisions out. Pure, each a table."""
