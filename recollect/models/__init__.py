"""Embedding models, the reranker, the chat model, and clients for models on a server."""
