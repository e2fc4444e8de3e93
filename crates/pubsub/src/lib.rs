//! The engine without I/O: templates, reader layouts, the cyclic application.
