"""Importers: files in, documents out."""
