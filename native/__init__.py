"""Extensions of frameworks in C++, and what builds them."""
