use super::EXPERIMENT;
