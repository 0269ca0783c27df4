//! The far end: authentication, listening, standard input and output; serves the rounds of a session.
