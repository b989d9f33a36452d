"""The GraphQL endpoint: schema first, resolvers in tables, batch loading, limits."""
