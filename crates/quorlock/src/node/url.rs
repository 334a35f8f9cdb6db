//! stub
#[derive(Debug, Clone)]
pub struct NodeUrl(String);
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    Redis,
    File,
    Memory,
}
#[derive(Debug, Clone, thiserror::Error)]
#[error("x")]
pub struct UrlError;
impl NodeUrl {
    pub fn parse(t: &str) -> Result<Self, UrlError> {
        Ok(Self(t.into()))
    }
    pub fn kind(&self) -> NodeKind {
        NodeKind::Redis
    }
    pub fn identity(&self) -> String {
        self.0.clone()
    }
}
impl std::fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
