CREATE OR REPLACE VIEW plumb.history AS
SELECT 'run' AS source, r.id, r.name AS source_name, r.started, r.preset, r.plumb, r.kernel,
       r.host AS node, CAST(NULL AS VARCHAR) AS rack, r.instance_type,
       f.experiment, f.params, f.metric, f.unit, f.better, f.value
FROM plumb.figure f
JOIN plumb.run r ON r.id = f.run
WHERE f.outcome = 'measured' AND f.value IS NOT NULL
UNION ALL
SELECT 'sweep', s.id, s.name, s.started, s.preset, n.plumb, n.stratum_facts ->> 'kernel',
       n.name, n.rack, n.instance_type,
       f.experiment, f.params, f.metric, f.unit, f.better, f.value
FROM plumb.fleet_figure f
JOIN plumb.node n ON n.sweep = f.sweep AND n.rank = f.rank
JOIN plumb.sweep s ON s.id = f.sweep
WHERE f.again = 0 AND f.value IS NOT NULL;

CREATE OR REPLACE VIEW plumb.peer_ratio AS
WITH middle AS (
  SELECT f.sweep, n.stratum, f.experiment, f.params, f.metric, count(*) AS peers,
         percentile_cont(0.5) WITHIN GROUP (ORDER BY f.value) AS middle
  FROM plumb.fleet_figure f
  JOIN plumb.node n ON n.sweep = f.sweep AND n.rank = f.rank
  WHERE f.again = 0
  GROUP BY f.sweep, n.stratum, f.experiment, f.params, f.metric
)
SELECT f.sweep, s.name AS sweep_name, s.started, f.rank, n.name AS node, n.stratum, n.rack,
       n.instance_type, f.experiment, f.params, f.metric, f.unit, f.value, m.middle, m.peers,
       CASE f.better WHEN 'higher' THEN m.middle / f.value ELSE f.value / m.middle END AS times_slower
FROM plumb.fleet_figure f
JOIN plumb.sweep s ON s.id = f.sweep
JOIN plumb.node n ON n.sweep = f.sweep AND n.rank = f.rank
JOIN middle m ON m.sweep = f.sweep AND m.stratum = n.stratum AND m.experiment = f.experiment
  AND m.params = f.params AND m.metric = f.metric
WHERE f.again = 0 AND f.better <> 'none' AND f.value > 0 AND m.middle > 0;
