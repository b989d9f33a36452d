CREATE TABLE state_part (
    id BIGINT PRIMARY KEY,
    recipe TEXT NOT NULL,
    sink TEXT NOT NULL,
    source TEXT NOT NULL,
    instance TEXT NOT NULL,
    settings TEXT NOT NULL,
    checkpoint TEXT,
    pass_number INTEGER NOT NULL,
    passed_at_ms BIGINT,
    full_at_ms BIGINT,
    UNIQUE (recipe, sink, source, instance)
            );
INSERT INTO "state_part" VALUES(2989717256323434882,'r','http://catalog','mlflow:0123:default','','2013365645abce9f90924f9380572567','{"since": 5}',1,1760000000000,1760000000000);
CREATE TABLE mlcat_migration (
	component TEXT NOT NULL,
	position INTEGER NOT NULL,
	name TEXT NOT NULL,
	applied_at_ms BIGINT NOT NULL,
	PRIMARY KEY (component, position)
);
INSERT INTO "mlcat_migration" VALUES('state',0,'parts, identity, records, failing tests, lock holders',1760000000000);
INSERT INTO "mlcat_migration" VALUES('state',1,'results of metadata tests, passing ones too',1760000000000);
INSERT INTO "mlcat_migration" VALUES('state',2,'entities that one pass lacked',1760000000000);
CREATE TABLE state_absent (
    part_id BIGINT NOT NULL REFERENCES state_part (id) ON DELETE CASCADE,
    urn TEXT NOT NULL,
    PRIMARY KEY (part_id, urn)
            );
INSERT INTO "state_absent" VALUES(2989717256323434882,'urn:li:mlModel:(urn:li:dataPlatform:mlflow,gone,PROD)');
CREATE TABLE state_holder (
    recipe TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    since_ms BIGINT NOT NULL
            );
CREATE TABLE state_identity (
    recipe TEXT NOT NULL,
    sink TEXT NOT NULL,
    source TEXT NOT NULL,
    kind TEXT NOT NULL,
    urn TEXT NOT NULL,
    PRIMARY KEY (recipe, sink, source, kind)
            );
INSERT INTO "state_identity" VALUES('r','http://catalog','mlflow:0123:default','run','urn:li:mlModel:(urn:li:dataPlatform:mlflow,0,PROD)');
CREATE TABLE state_record (
    part_id BIGINT NOT NULL REFERENCES state_part (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    urns TEXT NOT NULL,
    mark TEXT NOT NULL,
    joined TEXT NOT NULL,
    reason TEXT NOT NULL,
    seen_in_pass INTEGER NOT NULL,
    PRIMARY KEY (part_id, kind, id)
            );
INSERT INTO "state_record" VALUES(2989717256323434882,'run','a','d1','urn:li:mlModel:(urn:li:dataPlatform:mlflow,a,PROD)','','','',1);
INSERT INTO "state_record" VALUES(2989717256323434882,'run','b','d2','urn:li:mlModel:(urn:li:dataPlatform:mlflow,b,PROD)
urn:li:mlModel:(urn:li:dataPlatform:mlflow,c,PROD)','open','joined','',1);
INSERT INTO "state_record" VALUES(2989717256323434882,'run','refused','','urn:li:mlModel:(urn:li:dataPlatform:mlflow,refused,PROD)','','','422: no',1);
CREATE TABLE state_result (
    id BIGINT PRIMARY KEY,
    passing TEXT NOT NULL,
    failing TEXT NOT NULL
            );
INSERT INTO "state_result" VALUES(4701117090178918215,'[]','["urn:li:test:owned"]');
CREATE TABLE state_tested (
    recipe TEXT NOT NULL,
    sink TEXT NOT NULL,
    urn TEXT NOT NULL,
    result BIGINT,
    before BIGINT,
    run_ms BIGINT NOT NULL,
    PRIMARY KEY (recipe, sink, urn)
            );
INSERT INTO "state_tested" VALUES('r','http://catalog','urn:li:mlModel:(urn:li:dataPlatform:mlflow,a,PROD)',4701117090178918215,NULL,1760000000000);
CREATE INDEX state_record_marked ON state_record (part_id, kind) WHERE mark <> '';
CREATE INDEX state_record_joined ON state_record (part_id, kind) WHERE joined <> '';
CREATE INDEX state_record_dirty ON state_record (part_id, kind) WHERE reason <> '';
