//! An EndpointSlice while it is worked on.

use cache::Entry;
use object::{List, Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::discovery::v1::{EndpointPort, EndpointSlice};

/// A port of a slice; slices are told apart by their ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortKey {
    pub(crate) name: Option<String>,
    pub(crate) port: Option<i64>,
    pub(crate) protocol: Option<String>,
    pub(crate) app_protocol: Option<String>,
}

impl PortKey {
    fn read(port: EndpointPort<'_>) -> Self {
        Self {
            name: port.name().map(str::to_owned),
            port: port.port(),
            protocol: port.protocol().map(str::to_owned),
            app_protocol: port.app_protocol().map(str::to_owned),
        }
    }

    fn to_value(&self) -> Value {
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        let fields = [
            ("name", text(&self.name)),
            ("protocol", text(&self.protocol)),
            ("port", self.port.map(Value::from)),
            ("appProtocol", text(&self.app_protocol)),
        ];
        let present = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
        present.collect::<Map>().into()
    }
}

/// An EndpointSlice, and its endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    object: Map,
    pub(crate) endpoints: Vec<Map>,
}

impl Slice {
    pub(crate) fn read(entry: &Entry) -> Result<Self, Status> {
        let mut object = crate::objects::decode(EndpointSlice::schema(), entry)?;
        let endpoints = match object.remove("endpoints") {
            Some(Value::List(list)) => list.into_iter().filter_map(|one| one.as_map().cloned()).collect(),
            _ => Vec::new(),
        };
        Ok(Self { object, endpoints })
    }

    /// A slice that does not exist yet.
    pub(crate) fn new(metadata: Map, address_type: &str, ports: &[PortKey]) -> Self {
        let mut object = Map::new();
        object.insert("metadata", metadata);
        object.insert("addressType", address_type);
        if !ports.is_empty() {
            object.insert("ports", ports.iter().map(PortKey::to_value).collect::<List>());
        }
        Self { object, endpoints: Vec::new() }
    }

    pub(crate) fn object(&self) -> &Map {
        &self.object
    }

    /// The whole object, for a write.
    pub(crate) fn into_object(self) -> Map {
        let Self { mut object, endpoints } = self;
        if !endpoints.is_empty() {
            object.insert("endpoints", endpoints.into_iter().map(Value::from).collect::<List>());
        }
        object
    }

    pub(crate) fn view(&self) -> EndpointSlice<'_> {
        EndpointSlice::of(&self.object)
    }

    /// The name; empty for a slice that does not exist yet.
    pub(crate) fn name(&self) -> &str {
        self.view().metadata().name()
    }

    pub(crate) fn address_type(&self) -> &str {
        self.view().address_type()
    }

    /// The ports in the order of their names.
    pub(crate) fn ports(&self) -> Vec<PortKey> {
        let mut ports: Vec<PortKey> = self.view().ports().iter().map(PortKey::read).collect();
        ports.sort();
        ports
    }

    pub(crate) fn set_metadata(&mut self, key: &'static str, value: impl Into<Value>) {
        let metadata = self.object.get_or_insert_with("metadata", || Map::new().into());
        if let Some(metadata) = metadata.as_map_mut() {
            metadata.insert(key, value);
        }
    }
}
