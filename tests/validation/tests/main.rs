//! What is held to closed forms and published results, as one program: a new file is one line here.

mod learned_segments;
mod mapping_caches;
mod reference_drive;
mod theory;
