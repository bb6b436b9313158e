use super::Server;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

#[tokio::test]
async fn export_is_no_more() {
    let server = Server::start().await;
    server.send("POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    for (query, code) in
        [("export", 400), ("export=x", 400), ("export=true", 400), ("export=false", 200), ("export=0", 200)]
    {
        assert_eq!(server.get(&format!("{MAPS}/a?{query}")).await.code, code, "{query}");
        assert_eq!(server.get(&format!("{MAPS}?{query}")).await.code, 200, "{query}");
    }
}

#[tokio::test]
async fn only_reads_of_a_collection_offer_streams() {
    let server = Server::start().await;
    for (method, path, streams) in [("GET", MAPS, true), ("POST", MAPS, false), ("DELETE", MAPS, false)] {
        let request = http::Request::builder().method(method).uri(path).header("accept", "text/html");
        let answer = server.ask(request, "{}").await;
        assert_eq!((answer.code, answer.text().contains("stream=watch")), (406, streams), "{method}");
    }
}
