//! Counts over everything, for `/metrics`. Called by `http`.

use sqlx::PgConnection;

use super::Result;

/// Rows by state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    pub studies: Vec<(String, i64)>,
    pub trials: Vec<(String, i64)>,
    pub nodes: Vec<(String, i64)>,
    pub plan: i64,
    pub epoch: i64,
}

pub async fn read(conn: &mut PgConnection) -> Result<Totals> {
    let rows = sqlx::query!(
        r#"select 'studies' as "what!", state as "state!", count(*) as "count!" from studies group by state
           union all select 'trials', state, count(*) from trials group by state
           union all select 'nodes', state, count(*) from nodes group by state
           order by 1, 2"#
    )
    .fetch_all(&mut *conn)
    .await?;
    let cluster = sqlx::query!("select plan, epoch from cluster").fetch_one(conn).await?;
    let mut totals = Totals { plan: cluster.plan, epoch: cluster.epoch, ..Totals::default() };
    for row in rows {
        let counts = match row.what.as_str() {
            "studies" => &mut totals.studies,
            "trials" => &mut totals.trials,
            _ => &mut totals.nodes,
        };
        counts.push((row.state, row.count));
    }
    Ok(totals)
}
