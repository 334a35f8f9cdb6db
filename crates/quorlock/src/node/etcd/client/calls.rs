//! Which request goes where, and which answer belongs to it.

use crate::node::etcd::client::messages::*;
use prost::Message;

/// A request to a member.
pub(crate) trait Call: Message {
    /// Where it goes to.
    const PATH: &'static str;
    /// Whether a majority of the members agrees on the answer, so that it is not older than its request. What
    /// one member answers alone may be.
    const IS_AGREED_ON: bool;
    type Answer: Message + Default + Headed;
}

/// An answer, which says where it comes from.
pub(crate) trait Headed {
    fn header(&self) -> Header;
}

macro_rules! calls {
    ($($request:ident => $answer:ident, $path:literal, $agreed:literal;)*) => {$(
        impl Call for $request {
            const PATH: &'static str = concat!("/etcdserverpb.", $path);
            const IS_AGREED_ON: bool = $agreed;
            type Answer = $answer;
        }

        impl Headed for $answer {
            fn header(&self) -> Header {
                self.header.unwrap_or_default()
            }
        }
    )*};
}

calls! {
    RangeRequest => RangeResponse, "KV/Range", true;
    DeleteRequest => DeleteResponse, "KV/DeleteRange", true;
    TxnRequest => TxnResponse, "KV/Txn", true;
    GrantRequest => GrantResponse, "Lease/LeaseGrant", true;
    TimeToLiveRequest => TimeToLiveResponse, "Lease/LeaseTimeToLive", false;
    StatusRequest => StatusResponse, "Maintenance/Status", false;
    MembersRequest => MembersResponse, "Cluster/MemberList", false;
    AuthenticateRequest => AuthenticateResponse, "Auth/Authenticate", false;
    WatchRequest => WatchResponse, "Watch/Watch", false;
}

#[cfg(test)]
calls! {
    RevokeRequest => RevokeResponse, "Lease/LeaseRevoke", true;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Comparing the revision of an answer that one member gives alone would take a member that lags
    /// behind for a restored one.
    #[test]
    fn only_what_a_majority_agrees_on_is_as_new_as_its_request() {
        let agreed = [
            RangeRequest::IS_AGREED_ON,
            DeleteRequest::IS_AGREED_ON,
            TxnRequest::IS_AGREED_ON,
            GrantRequest::IS_AGREED_ON,
            RevokeRequest::IS_AGREED_ON,
        ];
        let local =
            [StatusRequest::IS_AGREED_ON, TimeToLiveRequest::IS_AGREED_ON, WatchRequest::IS_AGREED_ON];
        assert!(agreed.into_iter().all(|is_agreed_on| is_agreed_on));
        assert!(!local.into_iter().any(|is_agreed_on| is_agreed_on));
    }
}
