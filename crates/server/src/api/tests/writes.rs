use super::Server;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

#[tokio::test]
async fn warnings_go_along_with_refusals() {
    let server = Server::start().await;
    let unknown = r#"{"metadata":{"name":"a"},"foo":1}"#;
    let told = ["299 - \"unknown field \\\"foo\\\"\""];
    let made = server.send("POST", MAPS, unknown).await;
    assert_eq!((made.code, made.header("warning")), (201, told.to_vec()));
    let exists = server.send("POST", MAPS, unknown).await;
    assert_eq!((exists.code, exists.header("warning")), (409, told.to_vec()));
    let misnamed = server.send("PUT", &format!("{MAPS}/b"), unknown).await;
    assert_eq!((misnamed.code, misnamed.header("warning")), (400, told.to_vec()));
    let invalid =
        server.send("PATCH", &format!("{MAPS}/a"), r#"{"foo":1,"metadata":{"labels":{"/":""}}}"#).await;
    assert_eq!((invalid.code, invalid.header("warning")), (422, told.to_vec()));
}

#[tokio::test]
async fn owners_that_are_named_twice_are_told_of_also_when_the_write_fails() {
    let server = Server::start().await;
    let owner = r#"{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}"#;
    let object = format!(r#"{{"metadata":{{"name":"a","ownerReferences":[{owner},{owner}]}}}}"#);
    for code in [201, 409] {
        let answer = server.send("POST", MAPS, &object).await;
        assert_eq!((answer.code, answer.header("warning").len()), (code, 1), "{}", answer.text());
    }
}

#[tokio::test]
async fn orphans_of_a_job_are_told_of_also_when_there_is_no_job() {
    let server = Server::start().await;
    let answer = server.send("DELETE", "/apis/batch/v1/namespaces/n/jobs/none", "").await;
    assert_eq!((answer.code, answer.header("warning").len()), (404, 1));
}

#[tokio::test]
async fn a_name_that_is_left_to_the_server_is_named_by_its_beginning_in_a_namespace_that_goes() {
    let server = Server::start().await;
    assert_eq!(server.send("DELETE", "/api/v1/namespaces/n", "").await.code, 200);
    let answer = server.send("POST", MAPS, r#"{"metadata":{"generateName":"begin-"}}"#).await;
    answer.says(403, r#"configmaps \"begin-\" is forbidden: unable to create new content in namespace n"#);
}
