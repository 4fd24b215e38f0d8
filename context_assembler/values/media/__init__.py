"""What messages carry besides text: pictures, documents, their bytes and their limits."""
