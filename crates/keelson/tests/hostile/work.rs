//! Objects and selectors that are large in one place: what each costs, and whether others are held up.
