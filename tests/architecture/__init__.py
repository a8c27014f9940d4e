"""Rules about the source itself: who may import whom, and what the repository may hold."""
