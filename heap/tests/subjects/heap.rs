//! The heap: objects in slots that transactions allocate, replace, and free.
