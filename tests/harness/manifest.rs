//! What the pods of a printed manifest start: the arguments and variables of their container, read from
//! the objects as the types of Kubernetes' API.

use k8s_openapi::api::core::v1::{EnvVarSource, PodSpec, Secret};
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// The objects of a manifest.
pub struct Manifest(Vec<Value>);

/// What a container starts.
pub struct Started {
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl Manifest {
    /// As `kubectl` reads it.
    pub fn read(text: &str) -> Manifest {
        Manifest(serde_saphyr::from_multiple(text).unwrap())
    }

    /// The only object of a kind.
    pub fn only<T: DeserializeOwned>(&self, kind: &str) -> T {
        let mut found = self.0.iter().filter(|object| object["kind"] == kind);
        let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
        assert!(found.next().is_none(), "several of {kind}");
        serde_json::from_value(object.clone()).unwrap()
    }

    /// What the container of a pod starts on a node, which has these directories where the container
    /// has its volumes: name of the volume, and the directory.
    pub fn started(&self, pod: &PodSpec, node: &str, volumes: &[(&str, &Path)]) -> Started {
        let [container] = &pod.containers[..] else { panic!("one container") };
        let mounts = container.volume_mounts.iter().flatten();
        let places: Vec<(&str, &str)> = mounts
            .map(|mount| {
                let of = volumes.iter().find(|(name, _)| *name == mount.name);
                (mount.mount_path.as_str(), of.expect("the volume").1.to_str().unwrap())
            })
            .collect();
        let placed = |text: &str| {
            let place =
                |text: String, (inside, outside): &(&str, &str)| match text.strip_prefix(*inside) {
                    Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                        format!("{outside}{rest}")
                    }
                    _ => text,
                };
            places.iter().fold(text.to_owned(), place)
        };
        let mut env: Vec<(String, String)> = Vec::new();
        for variable in container.env.iter().flatten() {
            let value = match (&variable.value, &variable.value_from) {
                (Some(text), None) => env.iter().fold(placed(text), |text, (name, value)| {
                    text.replace(&format!("$({name})"), value)
                }),
                (None, Some(source)) => self.value(source, node),
                _ => panic!("{variable:?}"),
            };
            assert!(!value.contains("$("), "{}={value}", variable.name);
            env.push((variable.name.clone(), value));
        }
        let args = container.args.iter().flatten().map(|word| placed(word)).collect();
        Started { args, env }
    }

    fn value(&self, source: &EnvVarSource, node: &str) -> String {
        match (&source.field_ref, &source.secret_key_ref) {
            (Some(field), None) if field.field_path == "spec.nodeName" => node.to_owned(),
            (None, Some(of)) => {
                let secret: Secret = self.only("Secret");
                assert_eq!(secret.metadata.name.as_deref(), Some(of.name.as_str()));
                secret.string_data.unwrap()[&of.key].clone()
            }
            _ => panic!("{source:?}"),
        }
    }
}
