//! A disk that fills: writes come back when history is reclaimed.
